"""What is fitted to, or measured on, annotated documents."""
