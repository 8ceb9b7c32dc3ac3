/** A version of an operator's YAML config. */
export interface Config {
  readonly configId: number;
  readonly type: string;
  readonly name: string;
  readonly content: string;
  readonly createdAtMs: number;
}
