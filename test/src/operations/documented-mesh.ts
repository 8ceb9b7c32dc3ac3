import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "@diskmesh/testkit";
import { isPrinted, type Step } from "./document.js";
import { Machine } from "./machine.js";
import { ADDRESSES, type Site } from "./site.js";

export type MachineName = keyof typeof ADDRESSES | "admin";
export const MACHINES = ["admin", ...(Object.keys(ADDRESSES) as (keyof typeof ADDRESSES)[])] as const;
/** Name in the documents for all machines that exist from the beginning. */
const EVERYWHERE = "every machine";
const ADDED = "host-4";

export interface DocumentedMeshOptions {
  /** Values that replace those of the document's variables. */
  readonly values: Readonly<Record<string, string>>;
  /** Called for each machine before anything is typed. */
  readonly prepare: (machine: Machine) => void;
}

/** The machines of a document, on which its commands are typed. */
export class DocumentedMesh implements AsyncDisposable {
  readonly folder = temporaryFolder();
  readonly #machines = new Map<string, Machine>();
  readonly #addresses: ReadonlyMap<string, string>;

  constructor(
    site: Site,
    private readonly options: DocumentedMeshOptions,
  ) {
    this.#addresses = new Map(Object.values(ADDRESSES).map((given) => [given, site.address(given)]));
    for (const name of MACHINES) {
      const folder = join(this.folder, name);
      mkdirSync(folder);
      const launcher = site.launcher(name);
      const machine = new Machine(name, { folder, launcher, testHost: site.ownHost }, (address) => this.#at(address));
      this.#machines.set(name, machine);
      options.prepare(machine);
    }
  }

  machine(name: MachineName): Machine {
    const machine = this.#machines.get(name);
    if (machine === undefined) throw new Error(`no machine ${name}`);
    return machine;
  }

  get machines(): readonly Machine[] {
    return [...this.#machines.values()];
  }

  /** Returns the address of a machine in this test. */
  address(name: keyof typeof ADDRESSES): string {
    return this.#addresses.get(ADDRESSES[name]) as string;
  }

  /** Types a step, and throws when its output differs from the document. */
  async follow({ line, parts, expected }: Step): Promise<void> {
    let printed = "";
    for (const { machines, script } of parts) {
      const all = [...this.#machines.keys()].filter((name) => name !== ADDED);
      const names = machines.join(" ") === EVERYWHERE ? all : machines;
      for (const name of names)
        printed += await this.machine(name as MachineName)
          .type(this.#here(script, this.machine(name as MachineName)))
          .catch((error: Error) => {
            throw new Error(`line ${line}: ${error.message}`);
          });
    }
    const wanted = expected === undefined ? undefined : this.#withAddresses(expected);
    if (wanted !== undefined && !isPrinted(wanted, printed))
      throw new Error(`line ${line}: the document says that this is printed:\n${wanted}\nand this was:\n${printed}`);
  }

  /** Returns the script with this test's values of the variables. */
  #here(script: string, machine: Machine): string {
    const values = (name: string, given: string): string => {
      const own = this.options.values[name];
      if (own !== undefined) return own.replaceAll("MACHINE", machine.folder);
      return /^\/(etc|var|opt|run)\//.test(given) || given === "/opt" ? join(machine.folder, given) : given;
    };
    const assigned = script.replace(
      /(?<=^(?:[A-Z_0-9]+=\S+ +)*)([A-Z_0-9]+)=('[^']*'|\S+)/gm,
      (_, name: string, given: string) => `${name}=${values(name, given)}`,
    );
    return this.#withAddresses(assigned);
  }

  #withAddresses(script: string): string {
    return script.replace(/\b10\.0\.0\.\d+\b/g, (given) => this.#addresses.get(given) ?? given);
  }

  #at(address: string): Machine {
    for (const [given, here] of this.#addresses)
      if (here === address)
        return this.machine(Object.entries(ADDRESSES).find(([, one]) => one === given)?.[0] as MachineName);
    throw new Error(`no machine has the address ${address}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.machines.map((machine) => machine[Symbol.asyncDispose]()));
  }
}
