-- question: How is a database closed, so that what a user types can only read the trace's tables?
-- grain: settings; from here on no file but $paths can be opened and no setting changed
-- reads: no table
set allowed_paths = $paths;
set enable_external_access = false;
set lock_configuration = true;
