import type { Cure } from "./cause.js";

interface KnownAlert {
  /** Meaning, for readers that do not have the message of the log line. */
  readonly text: string;
  readonly cure: Cure;
}

/** All alerts of all processes, by the name that their log lines give. */
const ALERTS = {
  abrupt_ends: {
    text: "it was started several times within minutes after it had been killed or had crashed",
    cure: [
      'read the last line of its former log, and the kernel\'s log (journalctl -k) for "Out of memory": give the process more memory if that is there; the warning ends by itself once it has run for 10 min',
      "",
    ],
  },
  agent_certificates: {
    text: "certificates of agents of VMs have ended or end soon",
    cure: [
      "see which agents' certificates end, and recreate the VMs whose agents do not renew them",
      "diskmesh agents",
    ],
  },
  certificate_ended: {
    text: "its certificate has ended",
    cure: ["replace its certificate file with a renewed one: the process reloads it by itself", ""],
  },
  certificate_ends: {
    text: "its certificate ends soon",
    cure: ["replace its certificate file with a renewed one: the process reloads it by itself", ""],
  },
  csi_driver_silent: {
    text: "a csi-driver hangs, does not run, or cannot reach the director or the agent",
    cure: [
      "restart it if it hangs, start it, or repair the network from it to the director; one that is gone for good is forgotten after a day",
      "",
    ],
  },
  csi_driver_warns: {
    text: "a csi-driver warns",
    cure: ["do what the message says", ""],
  },
  descriptors: {
    text: "its file descriptors are in use, so it takes no new connections",
    cure: ["raise LimitNOFILE of its unit, or, while it runs, its limit by `prlimit --nofile`", ""],
  },
  dispatcher_warns: {
    text: "a cpi-dispatcher warns",
    cure: ["do what the dispatcher's own explanation says", "diskmesh why service cpi-dispatcher"],
  },
  mass_silence: {
    text: "most of the hosts are silent",
    cure: ["repair the network between the registry and the hosts; declare hosts DEAD that are gone for good", ""],
  },
  memory: {
    text: "its memory is nearly used up, and the kernel kills it at the limit",
    cure: ["raise MemoryMax of its unit, or the memory limit of its container", ""],
  },
  not_resurrected: {
    text: "a VM whose agent is silent is not recreated",
    cure: ["do what the message says: the VM is then recreated by itself", ""],
  },
  store_edited: {
    text: "another program has changed its store",
    cure: ["end that program, and restore the last backup, or what `diskmesh salvage` saves", ""],
  },
  store_refuses_writes: {
    text: "its store refuses writes",
    cure: ["free space in the folder, or start the database, that `tablet.storage` of its config names", ""],
  },
  tls_files: {
    text: "its TLS files have changed, and are not usable",
    cure: ["correct the file that the message names: the process reloads it by itself", ""],
  },
} as const satisfies Readonly<Record<string, KnownAlert>>;

export type AlertName = keyof typeof ALERTS;

export const ALERT_NAMES = Object.keys(ALERTS) as readonly AlertName[];

/** The entry of an alert that a process of another version tells. */
const UNKNOWN: KnownAlert = {
  text: "a warning that this version does not know",
  cure: ["do what the message, or the log of that process, says", ""],
};

/** Returns what an alert means, and its cure. `name` may be followed by what the alert is about. */
export function knownAlert(name: string): KnownAlert {
  const [known = ""] = name.split(" ", 1);
  return Object.hasOwn(ALERTS, known) ? ALERTS[known as AlertName] : UNKNOWN;
}
