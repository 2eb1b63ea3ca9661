"""JupyterLab extension, which shows model files, and views in notebooks without a kernel; the wheel contains it."""
