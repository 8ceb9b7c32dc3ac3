const CURES = "test/src/cures/fleet-troubles.ts";
const DIRECTOR_CURES = "test/src/cures/director-troubles.ts";
const STUCK = "test/src/stuck/situations.ts";
const CLI = "test/src/cli.test.ts";
const JOINING = "test/src/joining.test.ts";
const DELETED = "test/src/deleted-disks.test.ts";
const HOST_DISKS = "test/src/host-disks.test.ts";

/**
 * Test that types each command which errors, causes and the page offer: its file, and a text in the file. Pages of
 * docs/operate are typed by test/src/operations.test.ts.
 */
export const TYPED: Readonly<Record<string, readonly [file: string, text: string]>> = {
  "add-device X X": [CURES, "other hardware in a device's place"],
  "add-device X X --erase-foreign": [CLI, 'add-device host-1 host-1-device-1 --erase-foreign"'],
  "add-device X X --accept-unidentified": ["test/src/stuck/stuck-fleet.ts", "--accept-unidentified --wait"],
  "adopt-device X X": [CLI, 'done("adopt-device host-1'],
  "add-host X": [CURES, "a device that was never added"],
  agents: ["test/src/agent-certificates-end.test.ts", 'typed("agents")'],
  "attach X --host X": [HOST_DISKS, '"attach scratch --host host-1"'],
  "attach X --host X --move": [HOST_DISKS, '"attach scratch --host host-1 --move"'],
  "cancel X": [STUCK, "CPI that hangs"],
  "cancel-move X": [CURES, "a disk that cannot move"],
  "confirm-device X X": [CURES, "a drive that nothing identifies after a reboot"],
  "decide-unknown agent X --dry-run": [CLI, 'done("decide-unknown agent'],
  "decide-unknown registry X --dry-run": [CLI, 'done("decide-unknown registry'],
  "delete X": [CLI, '["detach", "delete"]'],
  "delete X --now": [DELETED, "delete twice --now"],
  "delete-orphan X": [
    "test/src/possible-orphans.test.ts",
    "Types each command that errors about possible orphans name",
  ],
  "detach X": [STUCK, "host to be removed that serves a disk"],
  disks: [CLI, 'done("disks")'],
  "disks --deleted": [DELETED, 'done("disks --deleted")'],
  "events --thing X": [CLI, "events --thing "],
  "fence-host X --reason X": [CURES, "a silent host with a disk"],
  "forget-orphan X": [
    "test/src/possible-orphans.test.ts",
    "Types each command that errors about possible orphans name",
  ],
  "get config cpi": [STUCK, "get config cpi"],
  hosts: [CLI, 'done("hosts")'],
  "init X --config X": ["docs/operate/services.md", "diskmesh init registry --config"],
  "join-token create": [JOINING, 'typed("create"'],
  "join-token list": [JOINING, 'typed("list")'],
  "join-token revoke": [JOINING, 'typed("revoke"'],
  "journal X X": [CLI, 'typed("journal", "host", hostId)'],
  "limits X --none": ["test/src/stuck/operator-situations.ts", "diskmesh limits"],
  "migrate-disk X": [CLI, 'done("migrate-disk scratch")'],
  "nats-config": ["docs/operate/certificates.md", "diskmesh nats-config nats --folder pki"],
  orphans: ["test/src/possible-orphans.test.ts", 'done("orphans")'],
  "pki host-authority": ["test/src/pki.test.ts", 'typed("pki", "host-authority")'],
  "pki list": ["test/src/pki.test.ts", "make files with which nats-server admits the director"],
  "pki make": ["docs/operate/certificates.md", "diskmesh pki make --folder pki"],
  "pki renew": ["docs/operate/certificates.md", "diskmesh pki renew --folder pki"],
  "pki replace-authority": ["docs/operate/certificates.md", "diskmesh pki replace-authority --folder pki"],
  "purge-host X --force": [CURES, "a removal of a host that never comes back"],
  "remove-device X X": [CURES, "a clean device that is gone"],
  "remove-device X X --keep-data": [CURES, "a used device that is gone"],
  "remove-host X": [CURES, "a host to be removed, whose disk does not move"],
  "remove-host X --keep-data": ["test/src/cures.test.ts", "remove-host host-4 --keep-data"],
  "remove-host X --wait": [CURES, "a removal that waits"],
  "resume X": [DIRECTOR_CURES, "a task under way in a restored backup"],
  salvage: [CLI, "salvage director"],
  "set-device-state online X": [CURES, "a device that an operator distrusts"],
  "set-host-state dead X --reason X": [CURES, '"a silent host"'],
  "set-host-state online X": [CURES, "a cordoned host"],
  status: [CLI, 'done("status")'],
  "undelete X": [DELETED, 'done("undelete scratch")'],
  verify: [CLI, "verify director"],
  why: [CLI, 'done("why")'],
  "why device X": [CURES, '["device", DEVICE]'],
  "why disk X": ["test/src/stuck/operator-situations.ts", '["disk", "slow"]'],
  "why host X": [CURES, '["host", "host-4"]'],
  "why pool X": [CLI, '"why", "pool"'],
  "why service cpi-dispatcher": ["test/src/stuck.test.ts", 'done("why service cpi-dispatcher")'],
};

/** Words that stand where a command stands, but that nobody is to type: names of files, folders and scripts. */
export const NOT_OFFERED: readonly string[] = ["backup", "completion bash", "init", "names", "pki"];
