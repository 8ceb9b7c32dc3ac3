/**
 * Alerts that must fire for each fault, and no others, on an otherwise healthy mesh. Tests cause these faults on a real
 * mesh.
 */
export const FAULT_ALERTS = {
  "the cpi-dispatcher is gone": ["DiskmeshNeedMissing", "DiskmeshProcessDown"],
  "the host of a published disk is gone": ["DiskmeshDiskNotServed", "DiskmeshHostUnavailable", "DiskmeshProcessDown"],
  "dead agent": ["DiskmeshHostUnavailable", "DiskmeshProcessDown"],
  "wrong certificate, of another authority": [
    "DiskmeshCertificateEnds",
    "DiskmeshHostUnavailable",
    "DiskmeshNeedMissing",
  ],
  "wrong certificate, of another host": ["DiskmeshHostUnavailable", "DiskmeshNeedMissing"],
  "owed removal": ["DiskmeshHostUnavailable", "DiskmeshProcessDown", "DiskmeshRemovalOwed"],
  "host to be removed that serves a disk": [],
  "full pool": ["DiskmeshCapacityLow", "DiskmeshRepairRoomMissing"],
  "CPI that hangs": ["DiskmeshTaskStuck"],
  "lock held": ["DiskmeshTaskStuck"],
  "CPI missing": ["DiskmeshCpiFails", "DiskmeshTasksFail"],
  "hung drive": ["DiskmeshDeviceHangs"],
  "failing drive": ["DiskmeshDeviceBroken", "DiskmeshIoErrors"],
  "fence behind a hung drive": ["DiskmeshDeviceHangs", "DiskmeshFenceStuck"],
  "disk that no device can take": ["DiskmeshMoveWaits"],
  "agent's folder full": ["DiskmeshAgentCacheFails", "DiskmeshNeedMissing"],
  "driver that cannot be loaded": ["DiskmeshDriverDown"],
  "mass silence": ["DiskmeshMassSilence", "DiskmeshProcessDown"],
  "outcome of a CPI's call unknown": ["DiskmeshPossibleOrphan"],
  "the director stands still again and again": ["DiskmeshEventLoopLate"],
  "device said to be broken": ["DiskmeshDeviceBroken"],
  "host that is added while its agent is away": [
    "DiskmeshHostUnavailable",
    "DiskmeshOrderStuck",
    "DiskmeshProcessDown",
  ],
  "disk deleted while the host of its device is away": [
    "DiskmeshEraseBehind",
    "DiskmeshHostUnavailable",
    "DiskmeshProcessDown",
  ],
  "agent that sleeps until its certificate ends": ["DiskmeshAgentCertificatesEnd"],
  "the database of the disk-registry stands still again and again": ["DiskmeshCommitsSlow"],
  "the database of the disk-registry is gone": ["DiskmeshLeaseShort", "DiskmeshNeedMissing", "DiskmeshNobodyLeads"],
} as const satisfies Readonly<Record<string, readonly string[]>>;

export type Fault = keyof typeof FAULT_ALERTS;
