"""Stands in for XProf: the names that are used of it, and a page that tries what it must not do."""
