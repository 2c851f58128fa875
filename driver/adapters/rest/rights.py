"""Which right each operation needs. Pure.

Asked by `guard`; the tests hold that no operation is missing.
"""

from holdfast.driver.people.access import Right

RIGHTS: dict[str, Right] = {
    "POST /jobs": Right.SUBMIT,
    "GET /jobs": Right.SEE_JOBS,
    "GET /jobs/{job}": Right.SEE_JOB,
    "DELETE /jobs/{job}": Right.DELETE_JOB,
    "POST /jobs/{job}/suspend": Right.CHANGE_JOB,
    "POST /jobs/{job}/resume": Right.CHANGE_JOB,
    "POST /jobs/{job}/stop": Right.CHANGE_JOB,
    "GET /jobs/{job}/progress": Right.SEE_JOB,
    "GET /jobs/{job}/attempts": Right.SEE_JOB,
    "GET /jobs/{job}/ranks/{rank}/logs": Right.READ_LOGS,
    "POST /jobs/{job}/stacks": Right.READ_LOGS,
    "GET /jobs/{job}/story": Right.SEE_JOB,
    "GET /jobs/{job}/why": Right.SEE_JOB,
    "GET /nodes": Right.SEE_NODES,
    "GET /nodes/{node}": Right.SEE_NODES,
    "GET /nodes/{node}/why": Right.SEE_NODES,
    "POST /nodes/{node}/evict": Right.CHANGE_NODES,
    "POST /nodes/{node}/restore": Right.CHANGE_NODES,
    "POST /nodes/{node}/maintain": Right.CHANGE_NODES,
    "POST /nodes/{node}/facts": Right.CHANGE_NODES,
    "POST /jobs/{job}/facts": Right.CHANGE_JOB,
    "GET /evidence": Right.SEE_NODES,
    "POST /diagnoses": Right.CHANGE_NODES,
    "GET /diagnoses/{diagnosis}": Right.SEE_NODES,
    "DELETE /diagnoses/{diagnosis}": Right.CHANGE_NODES,
    "POST /diagnoses/{diagnosis}/calibrate": Right.CHANGE_NODES,
    "GET /calibrations": Right.SEE_NODES,
    "GET /brake": Right.SEE_NODES,
    "POST /brake/apply": Right.CHANGE_NODES,
    "POST /brake/release": Right.CHANGE_NODES,
    "GET /incidents": Right.SEE_JOBS,
    "GET /incidents/{number}": Right.SEE_JOBS,
    "GET /digest": Right.SEE_JOBS,
    "GET /webhooks": Right.SEE_NODES,
    "POST /webhooks/{webhook}/test": Right.CHANGE_NODES,
    "GET /events": Right.SEE_JOBS,
}
