/** What a YAML text may be made of, beside its size. Named in the director's config under `limits.yaml`. */
export interface YamlLimits {
  /** Pieces that YAML tells apart: texts, indicators, spaces, line breaks, comments. */
  readonly maxTokens: number;
  /** Lists and mappings inside each other, as they are once aliases stand for what they name. */
  readonly maxDepth: number;
  /** Different ones. */
  readonly maxKeys: number;
  readonly maxAliases: number;
  readonly maxMergeKeys: number;
  /** About what it takes in memory as JSON once aliases and merge keys stand for what they name. */
  readonly maxExpandedBytes: number;
}

/** For what was accepted once: it is held to time and memory alone. */
export const NO_YAML_LIMITS: YamlLimits = {
  maxTokens: Number.POSITIVE_INFINITY,
  maxDepth: Number.POSITIVE_INFINITY,
  maxKeys: Number.POSITIVE_INFINITY,
  maxAliases: Number.POSITIVE_INFINITY,
  maxMergeKeys: Number.POSITIVE_INFINITY,
  maxExpandedBytes: Number.POSITIVE_INFINITY,
};

/** A text exceeds a limit, at an offset of it. */
export class YamlLimitError extends Error {
  override readonly name = "YamlLimitError";

  constructor(
    readonly offset: number,
    limit: keyof YamlLimits,
    limits: YamlLimits,
  ) {
    super(`${EXCEEDED[limit]}: the limit is ${limits[limit]} (limits.yaml.${limit})`);
  }
}

const EXCEEDED: Readonly<Record<keyof YamlLimits, string>> = {
  maxTokens: "it is made of too many pieces",
  maxDepth: "it is nested too deep",
  maxKeys: "it has too many different keys",
  maxAliases: "it has too many aliases",
  maxMergeKeys: "it has too many merge keys",
  maxExpandedBytes: "it has too many bytes once its aliases are expanded",
};
