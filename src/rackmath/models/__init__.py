"""What is computed: architectures, their exact counts, and the operators of one pass."""
