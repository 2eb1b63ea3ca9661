"""JupyterLab extension: views in notebooks that have no kernel. It is data of the wheel, and imports nothing."""
