/** What a YAML text may be made of, beside its size. Named in the director's config under `content.yaml`. */
export interface YamlLimits {
  /** Pieces that YAML tells apart: texts, indicators, spaces, line breaks, comments. */
  readonly tokens: number;
  /** Lists and mappings inside each other, as they are once aliases stand for what they name. */
  readonly depth: number;
  /** Different ones. */
  readonly keys: number;
  readonly aliases: number;
  readonly mergeKeys: number;
  /** About what it takes in memory as JSON once aliases and merge keys stand for what they name. */
  readonly expandedSizeBytes: number;
}

/** For what was accepted once: it is held to time and memory alone. */
export const NO_YAML_LIMITS: YamlLimits = {
  tokens: Number.POSITIVE_INFINITY,
  depth: Number.POSITIVE_INFINITY,
  keys: Number.POSITIVE_INFINITY,
  aliases: Number.POSITIVE_INFINITY,
  mergeKeys: Number.POSITIVE_INFINITY,
  expandedSizeBytes: Number.POSITIVE_INFINITY,
};

/** A text exceeds a limit, at an offset of it. */
export class YamlLimitError extends Error {
  override readonly name = "YamlLimitError";

  constructor(
    readonly offset: number,
    limit: keyof YamlLimits,
    limits: YamlLimits,
  ) {
    super(`${EXCEEDED[limit]}: the limit is ${limits[limit]} (content.yaml.${limit})`);
  }
}

const EXCEEDED: Readonly<Record<keyof YamlLimits, string>> = {
  tokens: "it is made of too many pieces",
  depth: "it is nested too deep",
  keys: "it has too many different keys",
  aliases: "it has too many aliases",
  mergeKeys: "it has too many merge keys",
  expandedSizeBytes: "it has too many bytes once its aliases are expanded",
};
