//! What `HELP` prints.

/// The statements and keys of the client.
pub const TEXT: &str = "\
Statements end with ';' and may take several lines.

  SELECT, INSERT INTO, EXECUTE STATEMENT SET BEGIN ... END    run a query or an insert
  CREATE, ALTER, DROP, USE      define catalogs, databases, tables and views
  SHOW TABLES | VIEWS | DATABASES | CATALOGS | FUNCTIONS | COLUMNS FROM t | CREATE TABLE t
  DESCRIBE t                    the columns of a table
  EXPLAIN query                 how a query would run
  SET 'key' = 'value'           change a setting; SET alone lists them
  RESET 'key'                   take a setting back; RESET alone all of them
  SHOW JOBS, STOP JOB 'id'      the jobs of this session; WITH SAVEPOINT [WITH DRAIN] stops so that it can go on
  CLEAR                         empty the screen
  HELP                          this
  QUIT or EXIT                  leave (or Ctrl-D)

Settings of the client
  'sql-client.execution.result-mode'             table (default), changelog, or tableau: how SELECT shows its rows
  'sql-client.execution.max-table-result.rows'   how many rows a view keeps
  'sql-client.display.print-time-cost'           whether a result says how long it took
  'table.display.max-column-width'               how wide a column of text may be
  'table.dml-sync'                               whether INSERT waits for its job

Keys
  Tab               complete a keyword, table, column, function, option or setting
  Up, Down, Ctrl-R  earlier statements
  Ctrl-C            clear the statement, or cancel the query that runs
  Ctrl-D            leave
";
