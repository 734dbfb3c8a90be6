"""Link mentions through other mentions, as in ArboEL."""
