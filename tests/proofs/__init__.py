"""Long proofs, each behind one command; the tests run small versions of them."""
