import type { ResurrectionRule, ResurrectionWishes } from "../specs/resurrection-rule.js";
import type { DirectorTables } from "../store/schema.js";
import type { TextLimits } from "../yaml/document.js";
import type { YamlReader } from "../yaml/reader.js";
import { Configs } from "./configs.js";

export const RESURRECTION = "resurrection";

export class ResurrectionConfigs extends Configs<readonly ResurrectionRule[], readonly ResurrectionRule[]> {
  readonly #isOnByDefault: boolean;

  constructor(reader: YamlReader, limits: Omit<TextLimits, "what">, isOnByDefault: boolean) {
    super({
      type: RESURRECTION,
      reader,
      limits,
      read: (reader, text, limits, options) => reader.read({ format: "resurrection_config", text, limits }, options),
      merge: (parts) => parts.flatMap(({ part }) => part),
    });
    this.#isOnByDefault = isOnByDefault;
  }

  /**
   * Returns the rules of the director's config file and of all resurrection configs. Throws InvalidStateError when a
   * stored config cannot be read.
   */
  wishes(tables: DirectorTables): ResurrectionWishes {
    return { isOnByDefault: this.#isOnByDefault, rules: this.current(tables) };
  }
}
