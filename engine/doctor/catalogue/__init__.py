"""What the doctor can find, as a table: symptom, evidence, cause, remedy."""
