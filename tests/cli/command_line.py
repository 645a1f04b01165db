"""What every error of the command line must look like."""


def one_line(err):
    """An error must be one line that says who speaks."""
    assert err.startswith("riskalign: error: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    return err
