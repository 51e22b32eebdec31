# One part per role; each says where its plugins install and which they are.
