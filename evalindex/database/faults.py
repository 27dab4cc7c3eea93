"""Where the rows of an index contradict each other: SQL that selects a sentence for each."""

from __future__ import annotations

#: Of schema 1, and what schema 2 added.
FAULTS = [
    """
SELECT 'log ' || log_id || ' belongs to no root' FROM log
WHERE root_id NOT IN (SELECT root_id FROM root)
UNION ALL
SELECT DISTINCT 'members of log ' || log_id || ', which is not there' FROM member
WHERE log_id NOT IN (SELECT log_id FROM log)
UNION ALL
SELECT 'log ' || log_id || ' has ' || count(epoch) || ' samples, not ' || samples
FROM log LEFT JOIN member USING (log_id) GROUP BY log_id HAVING count(epoch) <> samples
UNION ALL
SELECT DISTINCT 'epochs of log ' || log_id || ' that are not in the names' FROM member
WHERE name NOT GLOB 'samples/*_epoch_' || epoch || '.json'
AND name NOT GLOB 'samples/*_epoch_' || epoch || '/sample.json'
""",
    # Since schema 2.
    """
SELECT DISTINCT 'header or metrics of log ' || log_id || ', which is not there' FROM (
  SELECT log_id FROM header UNION SELECT log_id FROM metric)
WHERE log_id NOT IN (SELECT log_id FROM log)
UNION ALL
SELECT DISTINCT 'samples or scores ' || summaries_id || ', which belong to no log' FROM (
  SELECT summaries_id FROM summaries UNION SELECT summaries_id FROM sample
  UNION SELECT summaries_id FROM score)
WHERE summaries_id NOT IN (SELECT summaries_id FROM header WHERE summaries_id IS NOT NULL)
UNION ALL
SELECT 'log ' || log_id || ' has samples ' || summaries_id || ', which are not there' FROM header
WHERE summaries_id IS NOT NULL AND summaries_id NOT IN (SELECT summaries_id FROM summaries)
""",
]
