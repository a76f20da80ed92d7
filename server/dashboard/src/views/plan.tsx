// One plan: while it is queued or runs, how far it is; then its views, each behind a tab that is a link.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { useFetched } from '../lib/fetched';
import { lazy } from '../lib/lazy';
import { link } from '../lib/route';
import { useTitle } from '../lib/title';
import type { Summary } from '../lib/types';
import { Shown, StateBadge } from '../ui/parts';
import { RunningPlan } from './running';

export interface ViewProps {
  id: string;
  summary: Summary;
}

// What only one view needs is fetched with it.
const VIEWS: { name: string; label: string; view: (props: ViewProps) => ComponentChildren; when?: (summary: Summary) => boolean }[] = [
  { name: 'overview', label: 'Overview', view: lazy(() => import('./overview').then((module) => module.Overview)) },
  { name: 'timeline', label: 'Timeline', view: lazy(() => import('./timeline').then((module) => module.TimelineView)) },
  { name: 'memory', label: 'Memory', view: lazy(() => import('./memory').then((module) => module.MemoryView)) },
  { name: 'graph', label: 'Graph', view: lazy(() => import('./graph').then((module) => module.GraphView)) },
  { name: 'collectives', label: 'Collectives', view: lazy(() => import('./collectives').then((module) => module.CollectivesView)) },
  { name: 'sharding', label: 'Sharding', view: lazy(() => import('./sharding').then((module) => module.ShardingView)) },
  { name: 'nodes', label: 'Nodes', view: lazy(() => import('./nodes').then((module) => module.NodesView)) },
  { name: 'diagnostics', label: 'Diagnostics', view: lazy(() => import('./diagnostics').then((module) => module.DiagnosticsView)) },
  { name: 'search', label: 'Search', view: lazy(() => import('./search').then((module) => module.SearchView)) },
  {
    name: 'sweep',
    label: 'Sweep',
    view: lazy(() => import('./sweep').then((module) => module.SweepView)),
    when: (summary) => (summary.sweep?.length ?? 0) > 0 || (summary.what_if?.length ?? 0) > 0,
  },
  { name: 'downloads', label: 'Downloads', view: lazy(() => import('./downloads').then((module) => module.DownloadsView)) },
];

function Views(props: { id: string; view: string; summary: Summary }) {
  const views = VIEWS.filter((one) => one.when === undefined || one.when(props.summary));
  const current = views.find((one) => one.name === props.view);
  const View = current?.view;
  useTitle(`${current?.label ?? 'No such view'} of ${props.summary.model.name}, plan ${props.id.slice(0, 12)}`);
  const tabs = useRef<HTMLElement>(null);
  // On a narrow screen the tabs scroll: the one that is shown is in sight.
  useEffect(() => {
    tabs.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });
  }, [props.view]);
  return (
    <>
      <nav class="tabs" aria-label="Views of this plan" ref={tabs}>
        {views.map((one) => (
          <a key={one.name} href={link(['plans', props.id, one.name])} aria-current={one.name === props.view ? 'page' : undefined}>
            {one.label}
          </a>
        ))}
      </nav>
      {View === undefined ? (
        <p>This plan has no view of this name.</p>
      ) : (
        <View key={props.view} id={props.id} summary={props.summary} />
      )}
    </>
  );
}

export function PlanPage(props: { id: string; view: string }) {
  const { id } = props;
  const summary = useFetched<Summary>(`v1/plans/${id}/summary`);
  const running = summary.problem?.code === 'PLAN_NOT_READY';
  return running ? (
    <RunningPlan id={id} done={summary.reload} />
  ) : (
    <Shown fetched={summary} what="the plan">
      {(data) => (
        <>
          <div class="title">
            <h1>{data.model.name}</h1>
            <StateBadge state={data.job.state} />
            <span class="muted small">plan {id.slice(0, 12)}</span>
          </div>
          <Views id={id} view={props.view} summary={data} />
        </>
      )}
    </Shown>
  );
}
