/** One version of what operators tell the director in YAML. */
export interface Config {
  readonly configId: number;
  readonly type: string;
  readonly name: string;
  readonly content: string;
  readonly createdAtMs: number;
}
