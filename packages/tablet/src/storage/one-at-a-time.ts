/** Runs actions one at a time in the order of the calls. */
export class OneAtATime {
  #last: Promise<unknown> = Promise.resolve();

  run<T>(action: () => Promise<T>): Promise<T> {
    const result = this.#last.then(action);
    this.#last = result.catch(() => {});
    return result;
  }
}
