"""What do a cluster's own PrometheusRules say while its time goes on, and whom does its Alertmanager tell?

In: PrometheusRule, Alertmanager and AlertmanagerConfig objects, and what exporters of the twin say. Out: alerts as
Events of their rules, records and `ALERTS` that the twin's own questions (`twin.queries`) can be about, and
notifications.

Reading order: `component` (when anything is done at all), `watching` (scrape, evaluate, tell), `scraping` (what is
there to see), `notifying` (configuration, and who is told).
"""
