-- From layout 11: adds deliveries that some recipients have and others do not.

ALTER TABLE delivery ADD COLUMN recipients TEXT;
