"""JSON form of recordings: encoding, decoding, validation, and conversion of older versions."""
