"""JupyterLab extension, which shows views in notebooks without a kernel, and model files; it is data of the wheel."""
