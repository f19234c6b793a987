mod todo {}
