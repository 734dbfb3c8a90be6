"""The one error class of the package."""


class PelError(ValueError):
    """Something the user can put right. The message is one line that names the remedy.

    The command line prints it and exits with 1; anything else that escapes is a bug of ours.
    """
