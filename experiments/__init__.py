"""Studies that judge the estimators; each is run with python -m experiments.<name>."""
