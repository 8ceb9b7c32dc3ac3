import { InvalidStateError } from "@diskmesh/domain";
import type { Target } from "../instances/instance.js";
import type { DiskRecord, Holder } from "../store/disk.js";
import type { Json } from "../store/json.js";

/** The state changes that all kinds of disks share. */
type DiskEvent = "intend_create" | "create" | "intend_attach" | "attach" | "fail_attach" | "intend_detach" | "detach";

type DiskTransitions<State extends string, Event extends string> = Readonly<
  Record<Event, Readonly<Partial<Record<State, State>>>>
>;

type AttachTarget = Pick<Target, "instanceId" | "hostId" | "vmCid"> & { readonly readOnly?: boolean };

/** The state machine of a kind of disk. Methods return the record after an event. */
export class DiskKind<Disk extends DiskRecord, Event extends string = never> {
  constructor(
    private readonly transitions: DiskTransitions<Disk["state"], Event | DiskEvent>,
    /** Returns the disk's name in messages and its fields in errors. */
    private readonly named: (disk: Disk) => { readonly shown: string; readonly about: Record<string, string> },
    /** Returns the fields that record the holder of the disk. Without a holder, the fields clear the former holder. */
    private readonly heldBy: (holder: Holder | undefined, disk: Disk) => Partial<Disk>,
  ) {}

  /** Returns the disk after the event. Throws InvalidStateError when the state does not allow the event. */
  moved(disk: Disk, event: Event | DiskEvent): Disk {
    const state = this.transitions[event][disk.state as Disk["state"]];
    if (state !== undefined) return { ...disk, state };
    const { shown, about } = this.named(disk);
    throw new InvalidStateError(`${shown} is ${disk.state}: it cannot ${event.replace("_", " ")}`, { about });
  }

  created(disk: Disk, made: Pick<DiskRecord, "diskCid" | "cpi" | "realSizeBytes">): Disk {
    return { ...this.moved(disk, "create"), ...made };
  }

  intendAttach(disk: Disk, target: AttachTarget, attachmentId: string): Disk {
    const { instanceId, hostId, vmCid, readOnly = false } = target;
    const held = this.heldBy({ instanceId, hostId, attachmentId, readOnly }, disk);
    return { ...this.moved(disk, "intend_attach"), ...held, vmCid, hint: null };
  }

  attached(disk: Disk, hint: Json): Disk {
    return { ...this.moved(disk, "attach"), hint };
  }

  /** Returns the disk after an attach_disk call that certainly attached nothing. */
  notAttached(disk: Disk): Disk {
    return this.#nowhere(this.moved(disk, "fail_attach"));
  }

  detached(disk: Disk): Disk {
    return this.#nowhere(this.moved(disk, "detach"));
  }

  #nowhere(disk: Disk): Disk {
    return { ...disk, ...this.heldBy(undefined, disk), vmCid: "", hint: null };
  }
}
