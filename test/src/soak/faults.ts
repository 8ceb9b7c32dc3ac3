import { existsSync } from "node:fs";
import { join } from "node:path";
import { Drive } from "@diskmesh/testkit";
import { repositoryFolder } from "../repository-folder.js";
import { sharedBecause } from "./isolated-soak.js";
import { smallDiskProblem } from "./small-disk.js";
import type { SoakFleet } from "./soak-fleet.js";

const MINUTE_MS = 60_000;
/**
 * Durations of a fault in ms: `kill` for a short interruption, `pause` for as long as other processes wait for an
 * answer, `away` until all have noticed.
 */
const LENGTHS_MS = { kill: 1_500, pause: 20_000, away: MINUTE_MS } as const;
/** Clock jumps in s: forwards by more than any timeout, backwards by less than certificates are predated. */
const JUMPS_SECONDS = { forwards: 6 * 3_600, backwards: -45 * 60 } as const;
const [BY, BETWEEN] = [" ", " - "];

/** A fault that lasts for some time and is then undone. */
export interface Fault {
  readonly name: string;
  /** Duration in ms in a soak that is long enough. */
  readonly lengthMs: number;
  /** Returns why this machine cannot cause the fault; undefined when it can. */
  possible(fleet: SoakFleet): string | undefined;
  /** Returns the possible targets. Each has this fault once at a time. */
  targets(fleet: SoakFleet): readonly string[];
  /** Causes the fault. Returns a function that undoes it. */
  act(fleet: SoakFleet, target: string): Promise<() => void | Promise<void>>;
}

/** Problem check of faults that need nothing except a process. */
const always = (): undefined => undefined;
const allProcesses = ({ supervised }: SoakFleet) => [...supervised.keys()];
const allDrives = ({ surroundings }: SoakFleet) => [...surroundings.drives.keys()];
const driveProblem = () => sharedBecause() ?? Drive.problem();

export const OTHER_VERSION = "last release";

/** All faults. */
export const FAULTS: readonly Fault[] = [
  {
    // SIGKILL to a service, which its supervisor starts again.
    name: "kill",
    lengthMs: LENGTHS_MS.kill,
    possible: always,
    targets: allProcesses,
    act: (fleet, target) => must(fleet.supervised.get(target), target).kill(),
  },
  {
    // SIGSTOP to a process, and SIGCONT after a while: the process does not notice.
    name: "stop",
    lengthMs: LENGTHS_MS.pause,
    possible: always,
    targets: (fleet) => [...allProcesses(fleet), "nats", ...(fleet.store.database ? ["database"] : [])],
    async act(fleet, target) {
      if (target === "nats") return pause(fleet.mesh.nats);
      if (target === "database") return pause(must(fleet.store.database, target));
      return pause(must(fleet.supervised.get(target), target).process);
    },
  },
  {
    name: "NATS away",
    lengthMs: LENGTHS_MS.away,
    possible: always,
    targets: () => ["nats"],
    async act({ mesh: { nats } }) {
      await nats.kill();
      return () => nats.start();
    },
  },
  {
    name: "database away",
    lengthMs: LENGTHS_MS.away,
    possible: ({ store }) => {
      if (store.database !== undefined) return undefined;
      return store.name === "embedded" ? "the embedded store has no server" : "the database is not the soak's own";
    },
    targets: () => ["database"],
    async act({ store }) {
      const database = must(store.database, "database of the soak's own");
      await database.kill();
      return () => database.start();
    },
  },
  {
    // The file system of a service's state is filled completely.
    name: "full disk",
    lengthMs: LENGTHS_MS.pause,
    possible: () => sharedBecause() ?? smallDiskProblem(),
    targets: ({ surroundings }) => [...surroundings.smallDisks.keys()],
    async act({ surroundings }, target) {
      const disk = must(surroundings.smallDisks.get(target), target);
      disk.fill();
      return () => disk.makeRoom();
    },
  },
  {
    // A drive answers every request with EIO.
    name: "EIO",
    lengthMs: LENGTHS_MS.pause,
    possible: driveProblem,
    targets: allDrives,
    async act({ surroundings }, target) {
      const drive = must(surroundings.drives.get(target), target);
      drive.fail();
      return () => drive.mend();
    },
  },
  {
    // A drive no longer answers: reads and writes hang in the kernel.
    name: "hung drive",
    lengthMs: LENGTHS_MS.pause,
    possible: driveProblem,
    targets: allDrives,
    async act({ surroundings }, target) {
      const drive = must(surroundings.drives.get(target), target);
      drive.hang();
      return () => drive.resume();
    },
  },
  {
    // Every packet between two processes is lost in both directions, without an RST.
    name: "packets dropped",
    lengthMs: LENGTHS_MS.pause,
    possible: sharedBecause,
    targets: (fleet) => talkingPairs(fleet).map((pair) => pair.join(BETWEEN)),
    async act({ surroundings }, target) {
      const network = must(surroundings.network, "network of the soak's own");
      const [one = "", other = ""] = target.split(BETWEEN);
      network.cut(one, other);
      return () => network.heal(one, other);
    },
  },
  {
    // The wall clock of a process jumps, and jumps back.
    name: "clock jump",
    lengthMs: LENGTHS_MS.pause,
    possible: ({ clocks }) => sharedBecause() ?? clocks.problem,
    targets: (fleet) => Object.keys(JUMPS_SECONDS).flatMap((way) => allProcesses(fleet).map((name) => name + BY + way)),
    async act({ clocks }, target) {
      const [name = "", way = ""] = target.split(BY);
      clocks.set(name, must(JUMPS_SECONDS[way as keyof typeof JUMPS_SECONDS], way));
      return () => clocks.set(name, 0);
    },
  },
  {
    // A process is replaced by the last release for a while, and then by this version again.
    name: OTHER_VERSION,
    lengthMs: LENGTHS_MS.pause,
    possible: () =>
      existsSync(folderOfLastRelease()) ? undefined : `it is built when asked for: --faults "${OTHER_VERSION}"`,
    targets: allProcesses,
    async act(fleet, target) {
      const supervised = must(fleet.supervised.get(target), target);
      const { mainFile, config } = supervised.process;
      const service = /services\/([\w-]+)\//.exec(mainFile)?.[1] ?? "";
      const lastMain = join(folderOfLastRelease(), "services", service, "bundle/main.js");
      // Released programs do not accept limits from tests.
      await supervised.replace({ mainFile: lastMain, config: { ...config, tuning: undefined } });
      return () => supervised.replace({ mainFile, config });
    },
  },
];

interface LastRelease {
  lastRelease(root: string): { readonly commit: string } | undefined;
  ensureLastRelease(root: string): Promise<string>;
}

const { lastRelease, ensureLastRelease }: LastRelease = await import(
  join(repositoryFolder, "deploy/local/bootstrap/last-release.mjs")
);

/** Builds the last release; until then no process is replaced by it. */
export const buildLastRelease = (): Promise<string> => ensureLastRelease(repositoryFolder);

function folderOfLastRelease(): string {
  return join(repositoryFolder, ".cache/last-release", lastRelease(repositoryFolder)?.commit ?? "none");
}

function must<T>(thing: T | undefined, name: string): T {
  if (thing === undefined) throw new Error(`there is no ${name}`);
  return thing;
}

function pause(process: { readonly pid: number; signal(signal: NodeJS.Signals): void }): () => void {
  const { pid } = process;
  process.signal("SIGSTOP");
  // The process may have been killed and restarted meanwhile; the new process was not stopped.
  return () => {
    if (process.pid === pid) process.signal("SIGCONT");
  };
}

function talkingPairs({ mesh, store, workHosts }: SoakFleet): [string, string][] {
  const [directors, registries] = [mesh.names("director"), mesh.names("disk-registry")];
  const across = (some: readonly string[], others: readonly string[]) =>
    some.flatMap((one) => others.map((other): [string, string] => [one, other]));
  const databases = store.database === undefined ? [] : ["database"];
  return [
    ...across(directors, ["cpi-dispatcher", "nats"]),
    ...across(["cpi-dispatcher"], registries),
    ...across(registries, mesh.hostIds),
    ...across(["nats"], mesh.hostIds),
    // Hosts access devices on other hosts.
    ...across(workHosts, workHosts).filter(([one, other]) => one < other),
    ...across([...directors, ...registries], databases),
  ];
}
