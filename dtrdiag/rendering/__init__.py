"""How findings become tables, pictures and pages."""
