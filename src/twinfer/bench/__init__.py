"""Measuring Twinfer. Nothing else imports this."""
