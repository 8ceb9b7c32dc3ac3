import { checksumInAnyOrder, type Versioned } from "../documents/checksums.js";
import type { StoredChange } from "../documents/schema.js";
import { FORMAT_KEY, FORMAT_TABLE, STORE_FORMAT } from "../storage/format.js";
import type { LeaderState } from "../storage/storage.js";
import type { LoadOptions } from "./load.js";
import type { View } from "./view.js";
import { type CheckedState, editedText, type ViewCheckOptions, type WrongDocument } from "./view-check.js";

interface LeaderCheckOptions extends Pick<LoadOptions, "server" | "tabletName" | "log"> {
  readonly leader: LeaderState;
  readonly view: View;
  readonly onEdited: (text: string, documents: number) => void;
}

const FORMAT_DOCUMENT = { format: STORE_FORMAT };

/** Returns a change that stores the format version of the store. */
export function formatChange(previous: Versioned | null): StoredChange {
  return { table: FORMAT_TABLE, key: FORMAT_KEY, document: FORMAT_DOCUMENT, version: 1, previous };
}

/** Returns the leader's options for checking the view. Wrong documents are written again from memory. */
export function checkOfLeader(options: LeaderCheckOptions): Pick<ViewCheckOptions, "state" | "onWrong"> {
  const { leader, view, log, onEdited } = options;
  const asIs = (table: string, id: string): StoredChange =>
    table === FORMAT_TABLE && id === FORMAT_KEY
      ? formatChange({ document: FORMAT_DOCUMENT, version: 1 })
      : leader.asIs(table, id);
  const state: CheckedState = {
    firstNumber: () => log.claimed.firstNumber,
    size: () => leader.size(),
    tables: () => [FORMAT_TABLE],
    keys: (table) => (table === FORMAT_TABLE ? [FORMAT_KEY] : leader.keys(table)),
    get: (table, id) => asIs(table, id).document ?? undefined,
    checksum: (table, id) => {
      const { document, version } = asIs(table, id);
      return document === null ? undefined : checksumInAnyOrder(table, id, { document, version });
    },
    lastNumber: () => log.lastNumber,
    applied: async (upTo) => {
      await leader.durable();
      await view.applied(upTo);
    },
    // The leader's memory contains everything that the view contains, unless a newer leader writes the view.
    caughtUp: () => log.refuseFenced(),
  };
  const isReplaceable = ({ id, stored }: WrongDocument): boolean =>
    typeof id === "string" && !((stored?._seq as number) > log.lastNumber);
  const onWrong = async (wrong: readonly WrongDocument[]): Promise<void> => {
    const replaceable = wrong.filter(isReplaceable);
    const others = wrong.filter((each) => !isReplaceable(each));
    if (replaceable.length > 0)
      onEdited(editedText(options, replaceable, "the leader writes them again from memory"), replaceable.length);
    if (others.length > 0)
      onEdited(
        editedText(options, others, "the leader cannot write them again because of their _id or _seq: delete them"),
        others.length,
      );
    await Promise.all(replaceable.map(({ table, id }) => leader.commit(asIs(table, id))));
  };
  return { state: () => state, onWrong };
}
