// A component whose code is fetched when it is first shown.
import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Problem } from './api';
import { Loading, ProblemBox } from '../ui/parts';

type View<Props> = (props: Props) => ComponentChildren;

export function lazy<Props>(load: () => Promise<View<Props>>): View<Props> {
  let loaded: View<Props> | undefined;
  return function Lazy(props: Props) {
    const [, setReady] = useState(0);
    const [problem, setProblem] = useState<Problem>();
    useEffect(() => {
      let wanted = true;
      if (loaded === undefined) {
        load().then(
          (view) => {
            loaded = view;
            if (wanted) setReady(1);
          },
          () => {
            if (wanted) setProblem(new Problem(0, 'PAGE', 'A part of this page cannot be loaded: the daemon may be stopped, or may be a newer one. Load the page again.'));
          },
        );
      }
      return () => {
        wanted = false;
      };
    }, []);
    if (problem !== undefined) return <ProblemBox problem={problem} />;
    const View = loaded as ((props: Props) => preact.JSX.Element) | undefined;
    return View === undefined ? <Loading /> : <View {...(props as Props & object)} />;
  };
}
