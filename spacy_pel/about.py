"""What setup.py says of the package as well; imports nothing, as it runs before the install."""

__version__ = "0.1.0"
