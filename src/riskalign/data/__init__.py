"""What enters: samples and their notions, the checks that raise input errors, and files."""
