/** The last failure of an asynchronous method call on a node. */
export interface NodeError {
  readonly nodeId: string;
  readonly text: string;
  readonly taskId: number;
  readonly atMs: number;
}

const MAX_LENGTH = 2_000;

export function nodeErrorText(method: string, error: string): string {
  return `Async execution of ${method} failed with error: ${error}`.slice(0, MAX_LENGTH);
}
