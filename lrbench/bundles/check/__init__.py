"""What a bundle says, held against its weights, its data and this lrbench."""
