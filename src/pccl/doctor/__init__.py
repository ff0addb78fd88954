"""Is my machine well? Logs of nccl-tests beside what the network allows, and the fault that explains what is missing.

logs         read_logs(): what nccl-tests and rccl-tests print
faults       what may be wrong with a network, and which faults look alike
expectation  what NCCL should take in our model, with and without a fault
causes       which faults explain what was measured, and how well
advice       which further runs would tell more
diagnosis    diagnose(): the verdict
"""

from pccl.doctor.advice import Advice
from pccl.doctor.causes import Cause
from pccl.doctor.diagnosis import Diagnosis, Row, diagnose
from pccl.doctor.expectation import Expectation
from pccl.doctor.faults import Fault, boxes_of, faults_of
from pccl.doctor.logs import Log, parse_logs, read_logs

__all__ = [
    "Advice",
    "Cause",
    "Diagnosis",
    "Expectation",
    "Fault",
    "Log",
    "Row",
    "boxes_of",
    "diagnose",
    "faults_of",
    "parse_logs",
    "read_logs",
]
