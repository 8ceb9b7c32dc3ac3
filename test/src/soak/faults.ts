import { existsSync } from "node:fs";
import { join } from "node:path";
import { Drive } from "../mesh/drive.js";
import { repositoryFolder } from "../repository-folder.js";
import { sharedBecause } from "./isolated-soak.js";
import { smallDiskProblem } from "./small-disk.js";
import type { SoakFleet } from "./soak-fleet.js";

const MINUTE_MS = 60_000;
/** Lengths of a fault: a short hiccup, as long as others wait for an answer, and until everybody has noticed. */
const LENGTHS_MS = { kill: 1_500, pause: 20_000, away: MINUTE_MS } as const;
/** Forwards by more than any timeout, backwards by less than certificates were made valid for in the past. */
const JUMPS_SECONDS = { forwards: 6 * 3_600, backwards: -45 * 60 } as const;
const [BY, BETWEEN] = [" ", " - "];

/** A fault of a fleet that lasts a while and is undone. */
export interface Fault {
  readonly name: string;
  /** In a soak that is long enough. */
  readonly lengthMs: number;
  /** Why this machine cannot do it; undefined when it can. */
  possible(fleet: SoakFleet): string | undefined;
  /** To what it can be done, one at a time. */
  targets(fleet: SoakFleet): readonly string[];
  /** Returns how it heals. */
  act(fleet: SoakFleet, target: string): Promise<() => void | Promise<void>>;
}

/** Nothing but a process is needed. */
const always = (): undefined => undefined;
const allProcesses = ({ supervised }: SoakFleet) => [...supervised.keys()];
const allDrives = ({ surroundings }: SoakFleet) => [...surroundings.drives.keys()];
const driveProblem = () => sharedBecause() ?? Drive.problem();

export const OTHER_VERSION = "last release";

/** All that is done to a fleet. */
export const FAULTS: readonly Fault[] = [
  {
    // SIGKILL to a service; whoever supervises it starts it again.
    name: "kill",
    lengthMs: LENGTHS_MS.kill,
    possible: always,
    targets: allProcesses,
    act: (fleet, target) => must(fleet.supervised.get(target), target).kill(),
  },
  {
    // SIGSTOP to a process, and SIGCONT after a while: it has slept, and knows nothing of it.
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
    // The file system on which a service keeps its state is filled up to the last byte.
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
    // A drive answers everything with EIO.
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
    // A drive answers nothing any more: reads and writes hang in the kernel.
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
    // Every packet between two processes is lost, both ways, and no RST tells anybody.
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
    // A process is stopped, is of the last release for a while, and then of this version again.
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
      // The programs of users know no limits of tests.
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

/** Builds it; until then nothing is replaced by it. */
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
  // It may have been killed and started again meanwhile: another process then, which was not stopped.
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
    // Disks have devices on other hosts.
    ...across(workHosts, workHosts).filter(([one, other]) => one < other),
    ...across([...directors, ...registries], databases),
  ];
}
