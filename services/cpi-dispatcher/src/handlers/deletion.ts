import {
  type Cpi,
  type CpiCall,
  DiskNotFoundError,
  isDenial,
  PossiblyElsewhereError,
  VmNotFoundError,
} from "@diskmesh/cpi";
import { messageOf, NotFoundError, NotImplementedError } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { DispatcherContext } from "../cpis/context.js";
import type { ChosenCpi } from "../cpis/cpi-set.js";
import { endingEarly, timeLeftMs } from "../cpis/ending-early.js";
import { measured } from "../cpis/metrics.js";
import { type Answer, nextSearchStep } from "../model/search.js";
import { type ContextOnly, withCpis } from "./cpi-method.js";

/** A method that deletes an object by its CID. */
export interface Deletion<Request> {
  readonly method: "delete_vm" | "delete_disk" | "delete_snapshot";
  /** Returns the CID; throws for a malformed one. */
  readonly cidOf: (request: Request) => string;
  readonly remove: (cpi: Cpi, cid: string, call: CpiCall) => Promise<void>;
  /** Absent where BOSH's contract has no such method. */
  readonly isThere?: (cpi: Cpi, cid: string, call: CpiCall) => Promise<boolean>;
}

/** Kinds of the objects, and errors for objects that no CPI has. */
const OBJECTS = {
  delete_vm: { kind: "vm", notFound: (cid: string) => new VmNotFoundError(cid) },
  delete_disk: { kind: "disk", notFound: (cid: string) => new DiskNotFoundError(cid) },
  delete_snapshot: { kind: "snapshot", notFound: (cid: string) => new NotFoundError(`there is no snapshot ${cid}`) },
} as const;

/**
 * Time for which a searched CPI may take to say whether it has the object; at most a quarter of the call's remaining
 * time.
 */
const MAX_ASKING_MS = 60_000;

/**
 * Returns the handler of a method that deletes an object. Searches the other CPIs when the object's own CPI does not
 * have it and the caller wants them to be asked. Throws NotFoundError when no CPI has the object, and
 * PossiblyElsewhereError when that is not known.
 */
export function deletion<Request extends ContextOnly>(
  deletion: Deletion<Request>,
): (context: DispatcherContext, request: Request, call: CallContext) => Promise<Record<string, never>> {
  const { method, cidOf } = deletion;
  return (context, request, call) =>
    withCpis(context, request.context, call, async ({ set }, wanted, cpiCall) => {
      const cid = cidOf(request);
      const { kind, cpis } = await set.choose({ ...wanted, method, stemcellFormats: [] }, cpiCall);
      const removal = new Removal(deletion, cid, cpiCall);
      const [own, others] = wanted.unknownId ? [undefined, cpis] : [cpis[0], cpis.slice(1)];
      try {
        if (own === undefined) throw OBJECTS[method].notFound(cid);
        await removal.at(own);
      } catch (error) {
        if (kind !== "search" || !removal.isDenial(error)) throw error;
        if (!(await removal.atOneOf(others, own))) throw error;
      }
      return {};
    });
}

class Removal {
  constructor(
    private readonly deletion: Omit<Deletion<never>, "cidOf">,
    private readonly cid: string,
    private readonly call: CpiCall,
  ) {}

  at({ offered }: ChosenCpi): Promise<void> {
    const { method, remove } = this.deletion;
    return measured(offered.name, method, () => offered.run((cpi) => remove(cpi, this.cid, this.call)));
  }

  /** Returns true for the error of a CPI that does not have the object. */
  isDenial(error: unknown): boolean {
    return isDenial(OBJECTS[this.deletion.method].kind, error);
  }

  /** Deletes the object at the CPI that has it; returns false when none has it. */
  async atOneOf(cpis: readonly ChosenCpi[], own: ChosenCpi | undefined): Promise<boolean> {
    const named = new Map(cpis.map((cpi) => [cpi.recordedName, cpi]));
    const asked = cpis.map(async (cpi) => [cpi.recordedName, await this.#ask(cpi)] as const);
    const answers = new Map(await Promise.all(asked));
    for (;;) {
      this.call.signal.throwIfAborted();
      const step = nextSearchStep(answers);
      if (step.do === "end") return step.isFound;
      if (step.do === "give_up") {
        const start = own === undefined ? "nothing is recorded about" : `CPI \`${own.offered.name}\` does not have`;
        const what = `${OBJECTS[this.deletion.method].kind} ${this.cid}`;
        throw new PossiblyElsewhereError(
          `${start} ${what}, and it is not known whether another CPI has it: ${step.why}`,
        );
      }
      const cpi = named.get(step.cpi) as ChosenCpi;
      answers.set(step.cpi, step.isCertain ? await this.#takeFrom(cpi) : await this.#try(cpi));
    }
  }

  async #ask({ offered }: ChosenCpi): Promise<Answer> {
    const { isThere } = this.deletion;
    if (isThere === undefined) return { says: "untold" };
    const asking = (call: CpiCall) => offered.run((cpi) => isThere(cpi, this.cid, call));
    try {
      const has = await endingEarly(this.call, asking, Math.min(MAX_ASKING_MS, timeLeftMs(this.call) / 4));
      return { says: has ? "has" : "absent" };
    } catch (error) {
      return error instanceof NotImplementedError ? { says: "untold" } : this.#failure(error);
    }
  }

  /** Deletes the object at a CPI that has it. A failure is an error of the whole deletion, which may be repeated. */
  async #takeFrom(cpi: ChosenCpi): Promise<Answer> {
    try {
      await this.at(cpi);
      return { says: "deleted" };
    } catch (error) {
      if (!this.isDenial(error)) throw error;
      return { says: "absent" };
    }
  }

  /** Deletes the object at a CPI that may not have it. A CPI without the method cannot have made the object. */
  async #try(cpi: ChosenCpi): Promise<Answer> {
    try {
      await this.at(cpi);
      return { says: "claims" };
    } catch (error) {
      return error instanceof NotImplementedError ? { says: "absent" } : this.#failure(error);
    }
  }

  #failure(error: unknown): Answer {
    return this.isDenial(error) ? { says: "absent" } : { says: "failed", why: messageOf(error) };
  }
}
