import { AttachState, type Device } from "@diskmesh/api/registry";

/** Last answer to a caller about a device, which must stay true. */
export type Told =
  /** A call is in progress, or the device was purged: any state is allowed. */
  | "unsettled"
  /** AddHost or AddDevice succeeded. */
  | "in"
  /** RemoveHost or RemoveDevice answered E_TRY_AGAIN. */
  | "leaving"
  /** RemoveHost or RemoveDevice answered S_OK: the agent has closed the device. */
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
  /** True when the device was purged and not seen since: AddHost's S_OK does not include it. */
  purged: boolean;
  /**
   * True when the device was dirty and out of operation after a restore of the registry: it may hold data from after
   * the backup. Its next removal need not have erased it.
   */
  leftUnerased: boolean;
  /** Highest device generation seen; the registry never returns to a lower one. */
  deviceGeneration: number;
}

/** Answers that callers had received when a backup began. */
export type Mark = ReadonlyMap<DeviceAccount, Pick<DeviceAccount, "told" | "deviceGeneration">>;

/** Increase of the tablet generation by a restore. */
const RESTORED_GENERATIONS = 2 ** 20;
/** Increase of the device generation by a restore. */
const RESTORED_NUMBERS = 2 ** 32;

const MAY_BE: Readonly<Record<Told, readonly AttachState[] | undefined>> = {
  unsettled: undefined,
  in: [AttachState.ATTACHING, AttachState.ATTACHED],
  leaving: undefined,
  out: [AttachState.DETACHED, AttachState.UNKNOWN],
};

/** Stores the answers to all callers, and checks observed states against them. */
export class Account {
  readonly #violations = new Set<string>();
  readonly devices: readonly DeviceAccount[];
  /** Devices whose last answer changed after the last mark. */
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

  /** Violations, each once. */
  get violations(): readonly string[] {
    return [...this.#violations];
  }

  violated(text: string): void {
    this.#violations.add(text);
  }

  /** Returns the answers before a backup begins. */
  mark(): Mark {
    this.#toldSinceMark.clear();
    return new Map(this.devices.map((device) => [device, { ...device }]));
  }

  /**
   * Records that a backup exists. It contains the answers of its mark; for calls in progress during the backup either
   * state is allowed.
   */
  backedUp(mark: Mark): void {
    const entries = Array.from(mark, ([device, then]) => {
      const told: Told = this.#toldSinceMark.has(device) ? "unsettled" : then.told;
      return [device, { ...then, told }] as const;
    });
    this.#backup = new Map(entries);
  }

  /** True while a backup exists that will be restored. The restored registry does not know later changes. */
  get hasBackup(): boolean {
    return this.#backup !== undefined;
  }

  /** Number of devices that were settled at the backup, and number of those whose state has changed since. */
  get sinceBackup(): { readonly settled: number; readonly changed: number } {
    const settled = [...(this.#backup ?? [])].filter(([, { told }]) => told !== "unsettled");
    return { settled: settled.length, changed: settled.filter(([device, { told }]) => told !== device.told).length };
  }

  /** Makes all devices unsettled. Returns those that were settled at the backup. */
  restored(): Mark {
    const backup: Mark = this.#backup ?? new Map();
    this.#backup = undefined;
    for (const [device, { deviceGeneration }] of backup) Object.assign(device, { told: "unsettled", deviceGeneration });
    this.#tabletGeneration = Math.max(this.#tabletGeneration, RESTORED_GENERATIONS);
    return new Map([...backup].filter(([, { told }]) => told !== "unsettled"));
  }

  /** Returns whether the device has had no order since the restore; its stamps begin anew with the next order. */
  isUntoldSinceRestore({ deviceGeneration }: Device): boolean {
    return this.#tabletGeneration >= RESTORED_GENERATIONS && deviceGeneration < RESTORED_NUMBERS;
  }

  /** Compares a device in the registry with the answers. No call about its host may be in progress. */
  compare(account: DeviceAccount, seen: Device, told = account.told): void {
    const { deviceId } = account;
    const allowed = MAY_BE[told];
    if (allowed !== undefined && !allowed.includes(seen.attachState))
      this.violated(`${deviceId}: its caller was told "${told}", and it is ${seen.attachState}`);
    if (told === "out" && seen.attachState === AttachState.DETACHED && !seen.detachConfirmed)
      this.violated(`${deviceId}: DETACHED without its agent's word, though its host was never away for long`);
    const isHeld = seen.attachState === AttachState.ATTACHING || seen.attachState === AttachState.ATTACHED;
    // Allows a held device with a removal request, because the device is held until its erase is done.
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

  /**
   * Compares the open files of a host's agent with the answers: a removed device's file must be closed. Returns the
   * number of checked paths.
   */
  compareOpenFiles(hostId: string, openFiles: readonly string[]): number {
    const open = new Set(openFiles.map((path) => path.replace(/ \(deleted\)$/, "")));
    const devices = this.of(hostId);
    const closed = new Set(devices.map((device) => device.path));
    // A path stays open until the last device on it is closed.
    for (const { path, told } of devices) if (told !== "out") closed.delete(path);
    for (const path of closed)
      if (open.has(path))
        this.violated(`${path}: every device on it is DETACHED, and the agent of ${hostId} holds it open`);
    return closed.size;
  }
}
