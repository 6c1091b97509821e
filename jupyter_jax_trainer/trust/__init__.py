"""What may run code here: whose jobs, whose keys, which archives."""
