import { AttachState, type Device } from "@diskmesh/api/registry";

/** The last answer about a device, which must be true from then on. */
export type Told =
  /** A call is under way, or the device was purged: anything may be. */
  | "unsettled"
  /** Add* was answered. */
  | "in"
  /** Remove* was answered E_TRY_AGAIN. */
  | "leaving"
  /** Remove* was answered S_OK: its agent has let go. */
  | "out";

export interface DevicePlace {
  readonly hostId: string;
  readonly deviceId: string;
  readonly path: string;
  readonly offsetBytes: number;
  readonly sizeBytes: number;
}

export interface DeviceAccount extends DevicePlace {
  told: Told;
  /** It was purged and not seen since: AddHost says S_OK of the host's other devices, and nothing of this one. */
  purged: boolean;
  /** A restored registry found on it what came after the backup, when it was out already: it says so when it is removed again. */
  leftUnerased: boolean;
  /** The highest seen; the registry never goes back behind it. */
  deviceGeneration: number;
}

/** The answers that callers had when a backup was begun. */
export type Mark = ReadonlyMap<DeviceAccount, Pick<DeviceAccount, "told" | "deviceGeneration">>;

/** A restore adds so much to the tablet generation. */
const RESTORED_GENERATIONS = 2 ** 20;
/** And so much to the device generation. */
const RESTORED_NUMBERS = 2 ** 32;

const MAY_BE: Readonly<Record<Told, readonly AttachState[] | undefined>> = {
  unsettled: undefined,
  in: [AttachState.ATTACHING, AttachState.ATTACHED],
  leaving: undefined,
  out: [AttachState.DETACHED, AttachState.UNKNOWN],
};

/** Keeps the answers that all callers got, and checks what is seen against them. */
export class Account {
  readonly #violations = new Set<string>();
  readonly devices: readonly DeviceAccount[];
  /** Devices of which something else was told since the last mark. */
  readonly #toldSinceMark = new Set<DeviceAccount>();
  #tabletGeneration = 0;
  #backup: Mark | undefined;

  constructor(devices: readonly DevicePlace[]) {
    this.devices = devices.map((place) => this.#open(place));
  }

  #open(place: DevicePlace): DeviceAccount {
    let told: Told = "unsettled";
    const sinceMark = this.#toldSinceMark;
    return {
      ...place,
      purged: false,
      leftUnerased: false,
      deviceGeneration: 0,
      get told() {
        return told;
      },
      set told(word) {
        told = word;
        sinceMark.add(this);
      },
    };
  }

  of(hostId: string): DeviceAccount[] {
    return this.devices.filter((device) => device.hostId === hostId);
  }

  /** Each once, however often it was seen. */
  get violations(): readonly string[] {
    return [...this.#violations];
  }

  violated(text: string): void {
    this.#violations.add(text);
  }

  /** To be called before a backup is asked for. */
  mark(): Mark {
    this.#toldSinceMark.clear();
    return new Map(this.devices.map((device) => [device, { ...device }]));
  }

  /** The backup is there: it has what was told at its mark; where a call was under way meanwhile it may have either. */
  backedUp(mark: Mark): void {
    const entries = Array.from(mark, ([device, then]) => {
      const told: Told = this.#toldSinceMark.has(device) ? "unsettled" : then.told;
      return [device, { ...then, told }] as const;
    });
    this.#backup = new Map(entries);
  }

  /** True while there is a backup that will be restored: the restored registry will not know later changes. */
  get hasBackup(): boolean {
    return this.#backup !== undefined;
  }

  /** How many devices' state was settled at the backup; how many of them have another one now. */
  get sinceBackup(): { readonly settled: number; readonly changed: number } {
    const settled = [...(this.#backup ?? [])].filter(([, { told }]) => told !== "unsettled");
    return { settled: settled.length, changed: settled.filter(([device, { told }]) => told !== device.told).length };
  }

  /** The backup is restored: nothing is settled any more but what was so then, which is answered. */
  restored(): Mark {
    const backup: Mark = this.#backup ?? new Map();
    this.#backup = undefined;
    for (const [device, { deviceGeneration }] of backup) Object.assign(device, { told: "unsettled", deviceGeneration });
    this.#tabletGeneration = Math.max(this.#tabletGeneration, RESTORED_GENERATIONS);
    return new Map([...backup].filter(([, { told }]) => told !== "unsettled"));
  }

  /** Returns true when the agent got no order for the device since the restore, after which its stamps begin anew. */
  isUntoldSinceRestore({ deviceGeneration }: Device): boolean {
    return this.#tabletGeneration >= RESTORED_GENERATIONS && deviceGeneration < RESTORED_NUMBERS;
  }

  /** The registry's word on a device, asked for while nothing else was being asked of its host. */
  compare(account: DeviceAccount, seen: Device, told = account.told): void {
    const { deviceId } = account;
    const allowed = MAY_BE[told];
    if (allowed !== undefined && !allowed.includes(seen.attachState))
      this.violated(`${deviceId}: its caller was told "${told}", and it is ${seen.attachState}`);
    if (told === "out" && seen.attachState === AttachState.DETACHED && !seen.detachConfirmed)
      this.violated(`${deviceId}: DETACHED without its agent's word, though its host was never away for long`);
    const isHeld = seen.attachState === AttachState.ATTACHING || seen.attachState === AttachState.ATTACHED;
    // A device that is erased first is held until then.
    if (told === "leaving" && isHeld && !seen.removalRequested)
      this.violated(
        `${deviceId}: its caller was told to ask again, and it is ${seen.attachState} as if nobody had asked`,
      );
    if (told === "in" && seen.removalRequested)
      this.violated(`${deviceId}: a wish to remove it is left though it was added`);
    if (seen.deviceGeneration < account.deviceGeneration)
      this.violated(`${deviceId}: generation ${seen.deviceGeneration} after ${account.deviceGeneration}`);
    if (seen.tabletGeneration < this.#tabletGeneration)
      this.violated(`${deviceId}: tablet generation ${seen.tabletGeneration} after ${this.#tabletGeneration}`);
    account.purged = false;
    account.deviceGeneration = Math.max(account.deviceGeneration, seen.deviceGeneration);
    this.#tabletGeneration = Math.max(this.#tabletGeneration, seen.tabletGeneration);
  }

  /** The descriptor table of a host's agent, now: what it let go of is not open. Returns how many paths were judged. */
  compareOpenFiles(hostId: string, openFiles: readonly string[]): number {
    const open = new Set(openFiles.map((path) => path.replace(/ \(deleted\)$/, "")));
    const devices = this.of(hostId);
    const closed = new Set(devices.map((device) => device.path));
    // A path stays open with the last device on it.
    for (const { path, told } of devices) if (told !== "out") closed.delete(path);
    for (const path of closed)
      if (open.has(path))
        this.violated(`${path}: every device on it is DETACHED, and the agent of ${hostId} holds it open`);
    return closed.size;
  }
}
