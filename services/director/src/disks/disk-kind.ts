import { InvalidStateError } from "@diskmesh/domain";
import type { Target } from "../instances/instance.js";
import type { DiskRecord, Holder } from "../store/disk.js";
import type { Json } from "../store/json.js";

/** The events of every disk. */
type DiskEvent = "intend_create" | "create" | "intend_attach" | "attach" | "fail_attach" | "intend_detach" | "detach";

type DiskTransitions<State extends string, Event extends string> = Readonly<
  Record<Event, Readonly<Partial<Record<State, State>>>>
>;

/** Disks of one kind: what can happen to them, and what their records are afterwards. */
export class DiskKind<Disk extends DiskRecord, Event extends string = never> {
  constructor(
    private readonly transitions: DiskTransitions<Disk["state"], Event | DiskEvent>,
    /** How messages and errors name one. */
    private readonly named: (disk: Disk) => { readonly shown: string; readonly about: Record<string, string> },
    /** Returns the fields that record the disk's holder; undefined for no holder. */
    private readonly heldBy: (holder: Holder | undefined) => Partial<Disk>,
  ) {}

  /** Throws when that cannot happen to it now. */
  moved(disk: Disk, event: Event | DiskEvent): Disk {
    const state = this.transitions[event][disk.state as Disk["state"]];
    if (state !== undefined) return { ...disk, state };
    const { shown, about } = this.named(disk);
    throw new InvalidStateError(`${shown} is ${disk.state}: it cannot ${event.replace("_", " ")}`, { about });
  }

  created(disk: Disk, made: { readonly diskCid: string; readonly cpi: string }): Disk {
    return { ...this.moved(disk, "create"), ...made };
  }

  intendAttach(disk: Disk, target: Pick<Target, "instanceId" | "vmCid">, attachmentId: string): Disk {
    const { instanceId, vmCid } = target;
    return { ...this.moved(disk, "intend_attach"), ...this.heldBy({ instanceId, attachmentId }), vmCid, hint: null };
  }

  attached(disk: Disk, hint: Json): Disk {
    return { ...this.moved(disk, "attach"), hint };
  }

  /** attach_disk is known to have attached nothing. */
  notAttached(disk: Disk): Disk {
    return this.#nowhere(this.moved(disk, "fail_attach"));
  }

  detached(disk: Disk): Disk {
    return this.#nowhere(this.moved(disk, "detach"));
  }

  #nowhere(disk: Disk): Disk {
    return { ...disk, ...this.heldBy(undefined), vmCid: "", hint: null };
  }
}
