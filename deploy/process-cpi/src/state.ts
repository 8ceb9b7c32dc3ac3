import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { cloudError } from "./protocol.js";

export interface VmState {
  readonly agentId: string;
  readonly metadata: unknown;
}

export interface DiskState {
  readonly sizeMb: number;
  readonly metadata: unknown;
}

/**
 * Writes a file atomically, for concurrent readers and writers. Unlike `replaceFile`, does not sync it for a power
 * failure.
 */
export function writeWhole(file: string, content: unknown, { mode = 0o644 } = {}): void {
  const draft = `${file}.${process.pid}`;
  writeFileSync(draft, JSON.stringify(content), { mode });
  renameSync(draft, file);
}

/** Documents of one kind, one file per document. A kill during a write leaves a complete document or none. */
export class Documents<Document> {
  constructor(
    private readonly folder: string,
    /** Returns the error for a missing document. */
    private readonly notFound: (id: string) => Error,
  ) {
    mkdirSync(folder, { recursive: true });
  }

  find(id: string): Document | undefined {
    try {
      return JSON.parse(readFileSync(this.#file(id), "utf8"));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
  }

  get(id: string): Document {
    const found = this.find(id);
    if (found === undefined) throw this.notFound(id);
    return found;
  }

  put(id: string, document: Document): void {
    writeWhole(this.#file(id), document);
  }

  /** Creates a document. Returns false when it exists already. */
  create(id: string, document: Document): boolean {
    try {
      writeFileSync(this.#file(id), JSON.stringify(document), { flag: "wx" });
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
      throw error;
    }
  }

  delete(id: string): void {
    rmSync(this.#file(id), { force: true });
  }

  all(): [id: string, document: Document][] {
    const ids = readdirSync(this.folder).filter((name) => name.endsWith(".json"));
    return ids.flatMap((name) => {
      const id = name.slice(0, -".json".length);
      const document = this.find(id);
      return document === undefined ? [] : [[id, document] as [string, Document]];
    });
  }

  #file(id: string): string {
    if (!/^[\w.-]+$/.test(id)) throw this.notFound(id);
    return join(this.folder, `${id}.json`);
  }
}

/** All state of the CPI. */
export class State {
  readonly vms: Documents<VmState>;
  readonly disks: Documents<DiskState>;
  /** VM id of each attached disk. */
  readonly attachments: Documents<string>;
  readonly stemcells: Documents<object>;
  readonly snapshots: Documents<object>;

  constructor(readonly folder: string) {
    const at = (kind: string) => join(folder, kind);
    this.vms = new Documents(at("vms"), (id) => cloudError("VMNotFound", `VM '${id}' not found`));
    this.disks = new Documents(at("disks"), (id) => cloudError("DiskNotFound", `Disk '${id}' not found`));
    this.attachments = new Documents(at("attachments"), (id) =>
      cloudError("DiskNotAttached", `Disk '${id}' is not attached`),
    );
    this.stemcells = new Documents(at("stemcells"), (id) => cloudError("CloudError", `Stemcell '${id}' not found`));
    this.snapshots = new Documents(at("snapshots"), (id) => cloudError("CloudError", `Snapshot '${id}' not found`));
  }

  imageFile(diskCid: string): string {
    return join(this.folder, "disks", `${diskCid}.img`);
  }

  /** Returns the folder of a VM's files. */
  vmFolder(vmCid: string): string {
    return join(this.folder, "vm-folders", vmCid);
  }
}
