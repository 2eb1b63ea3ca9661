"""JupyterLab extension, which shows model files, and views without a kernel."""
