-- What a timeline comes to, by the tables of Perfetto's trace processor.
WITH s AS (
  SELECT slice.id, slice.parent_id, slice.ts, slice.dur, slice.name,
    -- What lies deep inside goes on, on tracks with longer names.
    CASE WHEN track.name LIKE 'rematerialisation,%' THEN 'rematerialisation' ELSE track.name END
      AS track,
    slice.parent_id IS NOT NULL OR track.name LIKE 'rematerialisation,%' AS nested,
    extract_arg(slice.arg_set_id, 'debug.executed') AS executed,
    extract_arg(slice.arg_set_id, 'debug.cost_ns') AS cost_ns,
    extract_arg(slice.arg_set_id, 'debug.cause') AS cause,
    extract_arg(slice.arg_set_id, 'debug.op') AS op,
    extract_arg(slice.arg_set_id, 'debug.for_op') AS for_op
  FROM slice JOIN track ON slice.track_id = track.id
)
SELECT 'computes' AS name, (SELECT count(*) FROM s WHERE track = 'model ops' AND executed) AS value
UNION ALL SELECT 'remats', (SELECT count(*) FROM s WHERE track = 'rematerialisation' AND executed)
UNION ALL SELECT 'unfinished', (SELECT count(*) FROM s WHERE executed = 0)
UNION ALL SELECT 'pressure', (SELECT count(*) FROM s WHERE cause = 'pressure')
UNION ALL SELECT 'release', (SELECT count(*) FROM s WHERE cause = 'release')
UNION ALL SELECT 'banish', (SELECT count(*) FROM s WHERE cause = 'banish')
UNION ALL SELECT 'stops', (SELECT count(*) FROM s WHERE track = 'run' AND name != 'run')
UNION ALL SELECT 'max memory', (
  SELECT CAST(max(value) AS INT) FROM counter JOIN track ON counter.track_id = track.id
  WHERE track.name = 'memory in use')
UNION ALL SELECT 'cost of first executions', (
  SELECT coalesce(sum(cost_ns), 0) FROM s WHERE track = 'model ops')
UNION ALL SELECT 'remat cost by arguments', (
  SELECT coalesce(sum(cost_ns), 0) FROM s WHERE track = 'rematerialisation')
UNION ALL SELECT 'remat cost by own time', (
  SELECT coalesce(sum(dur), 0) - coalesce(sum(CASE WHEN nested THEN dur END), 0)
  FROM s WHERE track = 'rematerialisation')
UNION ALL SELECT 'open slices', (SELECT count(*) FROM s WHERE dur < 0)
UNION ALL SELECT 'slices outside their parent', (
  SELECT count(*) FROM s AS child JOIN s AS parent ON child.parent_id = parent.id
  WHERE child.ts < parent.ts OR child.ts + child.dur > parent.ts + parent.dur)
UNION ALL SELECT 'flows', (SELECT count(*) FROM flow)
UNION ALL SELECT 'flows to another op than the one that asked', (
  SELECT count(*) FROM flow JOIN s AS one ON flow.slice_out = one.id
  JOIN s AS asker ON flow.slice_in = asker.id WHERE one.for_op != asker.op)
UNION ALL SELECT 'errors of the import', (
  SELECT coalesce(sum(value), 0) FROM stats WHERE severity IN ('error', 'data_loss'));
