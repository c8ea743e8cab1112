"""Small plain definitions of the model families that recordings and live runs are shown on."""
