"""Where records come from. A source reads; it never claims, and never stores its cursor."""
